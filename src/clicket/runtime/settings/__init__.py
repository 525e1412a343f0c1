"""One frozen `Settings` from arguments, environment and `clicket.toml`.

- `settings`: `Settings`
- `types`, `values`: types of settings; values as they are written, read and checked
"""

from clicket.runtime.settings.settings import FILE_NAME, HIDDEN, SECRET_NAMES, RuntimeOptions, Settings

__all__ = ["FILE_NAME", "HIDDEN", "SECRET_NAMES", "RuntimeOptions", "Settings"]
