"""One child process in the sandbox, from the host's side. A block goes in through `Session.begin`; output and displays come out
through `Session.watch`, and last how the block ended.

session      `Session`: requests to the child, deadlines, interrupts, kills, freezing; every block ends
connection   the four pipes: command frames out; answer frames, stdout and stderr in
pipes        non-blocking reader and writer of one pipe
protocol     the frames in both directions, with strict limits on what the program may send
block_run    one block: its output and displays until a reader takes them, and its end
block_clock  the time of a block, which stands still while a tool is used
uses         uses of tools: frames in, handler, answers out
capture      one output stream: head and tail in memory, the rest in an unlinked file
exit_reason  why a child ended: killed or crashed
timers       named timers of the event loop
"""
