"""Bursar: submit jobs to HPC systems, follow them, and read their results and quotas.

    from bursar import Bursar
    job = Bursar().submit("folder", system="hpc_one", command="sbatch run.sh").wait(progress=True)

The names in this module are the whole interface. The modules with an underscore, one for each subject, may change.
"""

from ._client import Bursar
from ._errors import BursarError, JobFailed, NotSignedIn, QuotaExceeded, ServerUnavailable
from ._executor import Executor, JobFuture
from ._job import Job, Jobs
from ._sweep import Sweep, SweepJob
from ._table import Table
from ._timeline import Timeline
from ._types import EventData, JobData, QuoteData
from ._version import version as __version__

__all__ = [
    "Bursar",
    "BursarError",
    "EventData",
    "Executor",
    "Job",
    "JobData",
    "JobFailed",
    "JobFuture",
    "Jobs",
    "NotSignedIn",
    "QuotaExceeded",
    "QuoteData",
    "ServerUnavailable",
    "Sweep",
    "SweepJob",
    "Table",
    "Timeline",
    "__version__",
]
