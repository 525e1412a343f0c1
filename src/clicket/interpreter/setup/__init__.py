"""How a session comes to be: its packages, its fonts, its sandbox."""
