"""What people see: one self-contained HTML page to decide with.

`softrobust.report` is both this stage and the verb of the user's ten lines, `sr.report(…)`. Python
binds a subpackage to its parent's attribute of the same name when it is first imported, whoever
imports it, so the module itself is callable: `sr.report(…)` works in any order of imports.
"""

import sys
from types import ModuleType
from typing import Any

from softrobust.report.page import Report, report

__all__ = ["Report", "report"]


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **settings: Any) -> Report:
        return report(*args, **settings)


sys.modules[__name__].__class__ = _CallableModule
