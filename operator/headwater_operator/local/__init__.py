"""The local cluster: the control loop's decisions carried out by processes and directories.

    headwater up ──lifeline──► supervisor ──► private Kafka
         │ view                    ├──► worker, worker, ...   one process group each
         ▼                         └──► control loop          if killed, the workers run on
    resource files ◄── worker, control loop, commands

Imports the pure floor of ``headwater`` only; the broker and the workers are ``headwater`` commands,
run as subprocesses.
"""
