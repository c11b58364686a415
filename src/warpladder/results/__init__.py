"""Results as frozen data, and their JSON files: of a climb, of a sweep of climbs, of a profile.

It imports errors and files; only text/ imports rich, only report/ matplotlib. Begin with climb.py; stored.py writes and
reads the files.
"""

from .climb import DISTURBED as DISTURBED
from .climb import STATUSES as STATUSES
from .climb import Checked as Checked
from .climb import DataFacts as DataFacts
from .climb import NetFacts as NetFacts
from .climb import Results as Results
from .climb import RungResult as RungResult
from .climb import Setting as Setting
from .climb import load as load
from .climb import parse as parse
from .machine import Gpu as Gpu
from .machine import Machine as Machine
from .timing import History as History
from .timing import Timing as Timing

#: Schema of a results file of a climb.
SCHEMA = Results.SCHEMA
