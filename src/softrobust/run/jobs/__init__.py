"""Runs that never lose work: tasks, result files, local processes and clusters."""

from softrobust.run.jobs.run import Crew as Crew
from softrobust.run.jobs.run import Outcome as Outcome
from softrobust.run.jobs.run import Stopped as Stopped
from softrobust.run.jobs.run import failure_file as failure_file
from softrobust.run.jobs.run import run_tasks as run_tasks
from softrobust.run.jobs.store import StorageError as StorageError
from softrobust.run.jobs.tasks import Task as Task
from softrobust.run.jobs.tasks import task_key as task_key
from softrobust.run.jobs.tasks import task_seed as task_seed
