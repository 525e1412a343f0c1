"""One frozen `Settings` from arguments, environment and `clicket.toml`.

- `settings`: `Settings`: each key of the file with its type and meaning; groups of keys are in `clicket.model.config`
- `tables`: the tables of agents and of other MCP servers
- `written`: text of the environment and tables of the file, as values
- `types`: settings as keywords of `Runtime` and `Settings`
"""

from clicket.runtime.settings.settings import FILE_NAME, HIDDEN, Settings
from clicket.runtime.settings.types import RuntimeOptions

__all__ = ["FILE_NAME", "HIDDEN", "RuntimeOptions", "Settings"]
