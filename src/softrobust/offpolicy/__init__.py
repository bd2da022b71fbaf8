"""What the log itself says of a policy that nobody followed: off-policy estimates, confounding."""

from softrobust.offpolicy.confounding import Confounding, tipping_point
from softrobust.offpolicy.episodes import Episodes, episodes_of
from softrobust.offpolicy.estimates import OffPolicy, off_policy

__all__ = ["Confounding", "Episodes", "OffPolicy", "episodes_of", "off_policy", "tipping_point"]
