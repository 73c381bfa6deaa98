"""What all tests share."""

from hypothesis import settings

# A busy machine is not a bug: time is measured where a test is about time.
settings.register_profile("tidings", deadline=None)
settings.load_profile("tidings")
