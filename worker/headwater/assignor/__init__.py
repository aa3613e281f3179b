"""Which worker holds which task: pure functions. Imports model and ids only.

group.py    what is known (members, tasks) and what is decided (GroupAssignment)
sticky.py   the target: balanced over threads, moving as little as balance allows
spread.py   the target's standbys: apart from each other, level, moving as little as that allows
threads.py  the tasks of one worker over its slots
staging.py  where tasks with state are until then, and which warm-ups that takes
refine.py   target x owned -> what each may hold now: revoke, acknowledged, grant
check.py    the laws, as functions that name what breaks them
"""
