"""The filter algebra: the relations between filters, from the relations between their constraints.

All functions take filters as tuples of conjunctions, joined by OR; all are pure, and their results depend
on nothing but their arguments. Each lives in the module that explains it:

    covers     every notification that passes theirs passes mine        _cover
    overlaps   some notification may pass both                          _overlap
    canonical  the same notifications, written in one way               _canonical
    merge      one simpler filter for two                               _merge
    precision  how much of what a merger accepts was asked for          _share
    negation   what does not pass, where that can be told               _negation
    witness    one notification that passes                             _witness

Where the theory cannot decide, `covers` says no and `overlaps` says yes: routing then forwards too much,
never too little. What the relations rest on is in `_terms` (what a conjunction asks of an attribute), in
`_constraint` (what every operator has to say) and in `_automaton` (how sets of texts are compared).
"""

from ._canonical import canonical, met
from ._cover import covers
from ._merge import merge
from ._negation import negation
from ._overlap import overlaps
from ._precision import precision
from ._witness import witness

__all__ = ["canonical", "covers", "merge", "met", "negation", "overlaps", "precision", "witness"]
