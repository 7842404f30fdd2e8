"""The profiles by name: those of this package, and those that other packages register."""

from streamfl.learning.profiles.adaptive.promotion import Promotion
from streamfl.learning.profiles.base import Profile
from streamfl.learning.profiles.experts import Experts
from streamfl.learning.profiles.paper.profile import Paper
from streamfl.protocol.registered import Registered

# Each is a class that derives from `Profile`; its `of` makes one from the user's options.
PROFILES = Registered[type[Profile]](
    "profile", Profile, "streamfl.profiles", {"adaptive": Promotion, "paper": Paper, "experts": Experts}
)
