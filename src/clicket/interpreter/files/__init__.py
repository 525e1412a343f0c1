"""Files that go into a session and come out of it.

inputs     writes the files that a run asks for into the program's work folder, before its first block
outputs    finds the files that a run made or changed, and stores them as artifacts, after its last block
artifacts  `ArtifactStore`, where outputs go, and a temporary folder that is one
"""
