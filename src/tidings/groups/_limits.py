"""Limits of groups, each with its unit."""

MAX_GROUP_NAME = 256
"""The most characters of the name of a group."""
MAX_GROUPS = 10_000
"""The most groups with members at one broker."""
MAX_GROUPS_OF_OWNER = 1_000
"""The most groups of one identity, or of one scope, with members at one broker."""
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
MAX_IDLE = 10_000
"""Of how many such groups it keeps that; beyond it, of whoever has most of them, the oldest is forgotten at once."""
MAX_RECENT = 8_192
"""How many of the latest publications are remembered, to recognise one that its publisher has handed over again."""
MAX_TERMS = 16
"""The most terms of a group of which a broker remembers what it has handed over."""

ACK_WITHIN = 30_000_000
"""Microseconds within which a member acknowledges a job, unless the group says otherwise."""
MIN_ACK_WITHIN, MAX_ACK_WITHIN = 10_000, 86_400_000_000
"""The bounds of what a group may say: ten milliseconds and a day."""
MAX_DELIVERIES = 5
"""How often a job is given to a member before it becomes a dead letter, unless the group says otherwise."""
MOST_DELIVERIES = 1_000
"""The most that a group may say."""
MAX_IN_FLIGHT = 10
"""How many jobs a member holds at once, unless it says otherwise."""
MOST_IN_FLIGHT = 1_000
"""The most that a member may say."""
MAX_JOBS = 4_096
"""The most jobs of one group that have come and are not handled; beyond it, the next ones are asked for later."""
MAX_DELAY = 86_400_000_000
"""Microseconds, a day: the longest delay of a `nack`."""
BACK_WITHIN = 5_000_000
"""Microseconds within which a member that is gone must be back: then its jobs go to others."""
TELL_AFTER = 50_000
"""Microseconds after which a point tells the brokers of the members what is handled."""
TELL_MANY = 256
"""How many jobs are handled at most before it does."""
TELL_CLIENTS_AFTER = 1_000_000
"""Microseconds after which a broker tells its members what is handled."""
MAX_POSITIONS = 10_000
"""Of how many acknowledged groups a broker remembers what is handled.

Beyond it, one without members goes: of the identity or scope that has most of them, the oldest.
"""
KEEP_POSITIONS = 604_800_000_000
"""Microseconds, a week: what is older on disk when a broker starts is forgotten."""
WRITE_AFTER = 1_000_000
"""Microseconds after which what is handled is written to disk."""
MAX_LISTED = 1_000
"""The most groups, or members of one, that are told to a client that asks."""
MAX_ASKED = 1_000
"""The most questions of clients about groups that are open at one broker."""
ASKED_FOR = 60_000_000
"""Microseconds after which a question about groups that nobody has answered is forgotten."""
MAX_KEYS_BY = 10_000
"""Of how many values of the attribute that keeps jobs in order it is remembered which member had the last one."""
