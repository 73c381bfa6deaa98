"""Limits of groups, each with its unit."""

MAX_GROUP_NAME = 256
"""The most characters of the name of a group."""
MAX_GROUPS = 10_000
"""The most groups with members at one broker."""
MAX_GROUPS_OF_OWNER = 1_000
"""The most groups of one identity with members at one broker."""
MAX_MEMBERS = 10_000
"""The most members of one group at one broker."""
MAX_WAITING = 10_000
"""The most notifications of one group that wait at its point; beyond it, the point subscribes anew where it was."""
MAX_OPEN = 100_000
"""The most notifications of one group that are assigned and not confirmed; beyond it, the next ones wait."""
CONFIRM_AFTER = 20_000
"""Microseconds within which a broker confirms what it has handed over."""
CONFIRM_MANY = 64
"""How many it confirms at once, whatever the time."""
SAY_AGAIN = 500_000
"""Microseconds after which a broker says again who is there, if the point has not answered."""
OVERDUE = 5_000_000
"""Microseconds without a confirmation after which the point asks everybody anew."""
KEPT = 600_000_000
"""Microseconds for which a broker keeps what was decided for a group that has no members any more, or another point."""
MAX_RECENT = 8_192
"""How many of the latest publications are remembered, to recognise one that its publisher has handed over again."""
MAX_TERMS = 16
"""The most terms of a group of which a broker remembers what it has handed over."""
