"""Search engines: anything that searches, behind one interface, and what happens to the documents it finds.

adapter        makes an engine of an object or a function, and checks what it returns
fusion         several engines as one, by reciprocal rank fusion
document_pool  the documents found so far, duplicates merged
tasks          blocking functions in threads, and the end of tasks
"""
