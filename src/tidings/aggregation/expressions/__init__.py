"""Questions as text: `count(), p95(load) BY rack WINDOW 60s WHERE type = 'load'`.

A question becomes a definition of the catalogue. It contains no code, and costs no more than its size allows; so
everybody may ask one, and nothing has to be deployed.
"""

from ._compiling import Computed, compiled
from ._functions import FUNCTIONS, OF_SUBSCRIPTIONS, PEOPLE
from ._parser import MAX_NESTING, MAX_OPERATIONS, MAX_TEXT, parse
from ._syntax import Calculation, Measure, Name, Negative, Number, Operand, Question, quoted

__all__ = [
    "FUNCTIONS",
    "MAX_NESTING",
    "MAX_OPERATIONS",
    "MAX_TEXT",
    "OF_SUBSCRIPTIONS",
    "PEOPLE",
    "Calculation",
    "Computed",
    "Measure",
    "Name",
    "Negative",
    "Number",
    "Operand",
    "Question",
    "compiled",
    "parse",
    "quoted",
]
