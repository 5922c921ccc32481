"""Scripts with which a Windows and SQL Server host records itself, using only what Windows and SQL Server ship.

`write_plan` writes a folder of commented PowerShell, T-SQL and a WPR profile that an administrator can read before
running. Nothing here runs on the host by itself, and nothing is installed there.
"""

from .options import LAYERS, PlanOptions
from .writing import write_plan

__all__ = ["LAYERS", "PlanOptions", "write_plan"]
