"""The tables and figures of the papers, a script each: ``python experiments/gamma.py --quick``.

What several scripts share is in `report` (arguments, Markdown, figures, memory), `methods` (how the
methods of Law et al. are chosen and scored), `kernels` (those of Muandet et al.) and `papers` (the
systems that they compare with).
"""
