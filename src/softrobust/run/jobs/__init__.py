"""Runs that never lose work: tasks, result files, local processes and clusters."""

from softrobust.run.jobs.run import Outcome, Stopped, failure_file, run_tasks
from softrobust.run.jobs.store import StorageError, load_results
from softrobust.run.jobs.tasks import Task, task_key, task_seed

__all__ = [
    "Outcome",
    "Stopped",
    "StorageError",
    "Task",
    "failure_file",
    "load_results",
    "run_tasks",
    "task_key",
    "task_seed",
]
