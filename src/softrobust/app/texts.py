"""Every word of the app, by language; what a report says comes from `report`."""

from __future__ import annotations

from typing import Any

EN = {
    "title": "softrobust",
    "skip": "Skip to the content",
    "quit": "Quit",
    "quit_said": "softrobust is closed. You can close this tab; your runs are in the folder.",
    "folder": "Folder: {folder}",
    # -- the first page
    "start": "Choose a policy from a log of past decisions",
    "start_lead": "Bring a table: one row per decision (state, action, next state, reward), or one "
    "row per visit of a patient, field or shop. It stays on this computer.",
    "bring": "Bring a file",
    "choose_file": "Choose a file",
    "drop": "or drop it here: CSV, Excel or Parquet, up to {most}",
    "too_large": "'{name}' is larger than {most}, the most that can be brought this way. Copy it "
    "into {folder} and reload this page: files there may have any size.",
    "files_here": "Files in this folder",
    "no_files": "There are no tables in this folder yet.",
    "runs_here": "Runs in this folder",
    "no_runs": "Nothing was solved here yet.",
    "more_left": "… and {n} more.",
    "solving_now": "{name}: being solved",
    "solving_lost": "{name}: ended without an answer",
    "of_file": "{source}, by {solver}",
    "compare": "Compare two runs",
    "compare_first": "First run (it brings the question)",
    "compare_second": "Second run",
    "compare_do": "Compare",
    "compare_all": "All figures",
    "differ": "Where they differ",
    "differ_lead": "State, what {first} does → what {second} does:",
    "differ_none": "Both do the same in every state.",
    # -- a file
    "file": "1 · The file",
    "looking": "Looking at {name} …",
    "whole_look": "All that is known of the file",
    "covers": "What it covers: a column for each state, a row for each action; the stronger, "
    "the more often seen.",
    "columns": "2 · The columns",
    "columns_lead": "What each column was taken for. Correct what is wrong: the file is read anew.",
    "kind": "One row is",
    "kind_log": "a step: state, action, next state",
    "kind_visits": "a visit: who, when, what was measured and done",
    "role_state": "State (where one was)",
    "role_action": "Action (what was done)",
    "role_next_state": "Next state (where it led)",
    "role_reward": "Reward (how good it was)",
    "role_episode": "Episode (what belongs together)",
    "role_terminal": "Marks an end",
    "role_id": "Whose visit it is",
    "role_time": "When",
    "role_measurements": "Measurements (they make up the state)",
    "role_reward_rule": "How good it was: a column or a formula",
    "role_cost_rule": "What actions cost, every one of them: spray=2; none=0",
    "cost_wrong": "Costs are an action, = and a number, as in spray=2; none=0.",
    "role_terminal_rule": "What marks an end: status=died, or none",
    "odd": "3 · What looks wrong",
    "odd_none": "Nothing looks wrong.",
    "rows_shown": "The rows",
    "row": "row",
    "blocked": "It cannot be solved like this",
    "anyway": "Go on anyway: this then stands under the answer",
    "goal": "4 · What you want",
    "gamma": "What a reward a step later counts (γ, 0 to 1)",
    "gamma_wrong": "A number above 0 and below 1 is needed, such as 0.95 or 0,95.",
    "improve": "Never worse than now: change only where the log shows that it pays",
    "average": "Best on average: trust the models",
    "careful": "Careful: guard the bad case",
    "between": "In between: choose with the slider",
    "caution": "How careful",
    "caution_lead": "What each degree of caution would do, on models drawn from the log. The bad "
    "case is the average of the worst {share} of them.",
    "caution_wait": "Working out what caution costs …",
    "caution_same": "One policy is the best at every degree of caution.",
    "caution_improve": "“Never worse than now” does not use the slider: it changes only what "
    "halves of the log confirm.",
    "caution_ends": "the average alone|the bad case alone",
    "at": "Caution {lam}: the bad case counts {share}. {mean} on average, {bad} in the bad case.",
    "strip": "States that change",
    "now_then": "{now} → {then}",
    "strip_lead": "State, what is usually done there now → what would be done:",
    "changes": "{n} of {of} states change",
    "changed_since": "just changed",
    "advanced": "More",
    "alpha": "The bad case is the worst … % of models",
    "alpha_wrong": "A share between 1 and 99 is needed, such as 10.",
    "seconds": "Stop by itself after … seconds",
    "seconds_wrong": "Seconds are a number above 0, or nothing.",
    "solve": "Solve",
    "command": "The same on the command line",
    # -- solving; stages by the names that the work gives them
    "stage fitting the posterior": "learning how the world may work",
    "stage drawing models": "drawing models of it",
    "stage judging by halves of the log": "judging the choice by halves of the log",
    "solving": "5 · Solving {file}",
    "elapsed": "{seconds} s so far",
    "stop": "Stop and keep the best so far",
    "stopping": "Stopping: what was found so far is being written down …",
    "reload_ok": "You can close or reload this page: the work goes on.",
    "failed": "It ended without an answer",
    "lost": "The process that solved it is gone (killed, or the computer slept). Solve it again.",
    "forget": "Remove this note",
    "back": "Back to the file",
    "page_soon": "Still at work ({stage}): the page below is being written anew.",
    # -- the answer
    "answer": "The answer",
    "download": "Take it with you",
    "download_report": "Report (HTML)",
    "download_policy": "Policy (CSV)",
    "download_workbook": "Workbook (Excel)",
    "open_page": "Open the page alone",
    "sections": "The whole page",
    "to_policy": "What to do",
    "to_why": "Why",
    "to_trust": "Can it be trusted",
    "trust_do": "Check it, and rehearse it in known worlds (about a minute)",
    "no_run": "There is no run '{name}' in this folder.",
    "no_file": "There is no file '{name}' in this folder.",
    "not_read": "The run cannot be read",
    # -- refused requests
    "no_token": "This page is for whoever started softrobust: open the address that it printed. "
    "The address works once; for a new one stop it (Ctrl-C) and start it again.",
    "no_host": "softrobust answers on this computer only.",
    "no_length": "The size of a file must be told before it is sent.",
    "too_long": "That is more than {most}. Copy the file into the folder instead.",
}
MOST_BYTES = 200 * 2**20  # of a file that is brought by the browser
LANGUAGES = {"en": EN}  # another one has the same keys, and the same facts in their texts
LANGUAGE = "en"


def text(key: str, **facts: Any) -> str:
    """A text with its facts."""
    return LANGUAGES[LANGUAGE][key].format(**facts)


def stage_text(name: str) -> str:
    """A stage of the work in the language of the page; its own name where there is no other."""
    return LANGUAGES[LANGUAGE].get(f"stage {name}", name)


def size_words(n: int) -> str:
    """Bytes as people say them."""
    return f"{n / 2**20:.0f} MB"
