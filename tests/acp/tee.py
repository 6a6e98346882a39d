"""Runs an agent and keeps every line that it and its client write.

`tee.py LOG COMMAND [ARGUMENT …]`: the lines of the client are kept with `>` before them, those of the agent with `<`.
The agent's process ID is kept in `LOG.pid`.
"""
import subprocess
import sys
import threading

log = open(sys.argv[1], "a", encoding="utf-8")
agent = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
with open(sys.argv[1] + ".pid", "w", encoding="utf-8") as pid:
    pid.write(str(agent.pid))
writing = threading.Lock()


def pass_on(source, target, mark):
    for line in source:
        with writing:
            log.write(mark + line.decode())
            log.flush()
        try:
            target.write(line)
            target.flush()
        except OSError:
            break
    try:
        target.close()
    except OSError:
        pass


reader = threading.Thread(target=pass_on, args=(sys.stdin.buffer, agent.stdin, ">"), daemon=True)
reader.start()
pass_on(agent.stdout, sys.stdout.buffer, "<")
sys.exit(agent.wait())
