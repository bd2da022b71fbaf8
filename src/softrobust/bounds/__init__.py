"""Upper bounds on what any policy of a class can earn."""

from softrobust.bounds.best import OF_PRACTICE as OF_PRACTICE
from softrobust.bounds.best import Bound as Bound
from softrobust.bounds.best import Covers as Covers
from softrobust.bounds.best import ReplicationBound as ReplicationBound
from softrobust.bounds.best import best_bound as best_bound
from softrobust.bounds.best import bound_of as bound_of
from softrobust.bounds.best import clairvoyant_bound as clairvoyant_bound
from softrobust.bounds.best import replication_bound as replication_bound
from softrobust.bounds.paper_errors import PaperErrors as PaperErrors
from softrobust.bounds.paper_errors import paper_errors as paper_errors
