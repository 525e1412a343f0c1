"""Files that go into a session and come out of it."""
