"""The whitelist: what each operator becomes, or the sentence that refuses it.

A rule takes what is known of the records that reach a node (``flow.Flow``) and returns what is
known behind it. Why each is right stands in
``docs/adr/0042-what-is-computed-as-dataframes.md``. One module per family of operators.
"""

from headwater.model.operators import import_families

import_families(__name__)
