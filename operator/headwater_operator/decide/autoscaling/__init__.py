"""How many workers there are to be, decided from lag, rates and what a restore costs.

load      samples ─► what comes in, what a StreamThread can process
sizing    ─► how many workers that needs, when another one would be of use
windows   ─► what was right during a time
verdict   advise(): one sample ─► the number and the reason
owner     spec.replicas or the status: who says how many
applied   the verdict as a part of the whole decision: who owns the number, what is reported
"""
