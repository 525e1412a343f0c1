"""How a session is made: its packages, its font list, its sandbox.

session_factory  `SessionFactory`: starts sessions in one sandbox, with modules preloaded
packages         which packages programs may import, and wheels installed without network
target_python    questions to the Python that programs run on, each in a process of its own
font_cache       matplotlib's font list, made once and given to every session
"""
