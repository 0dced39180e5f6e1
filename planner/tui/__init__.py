"""`vplan tui`: planning by turning knobs. It shows what the planner says and computes nothing.

`settings.py` is what the knobs hold, `knobs.py` what each does, `outcome.py` what the planner says
of them; one file for each screen and widget, the looks in `vplan.tcss`. Imported, Textual with it,
only when the TUI runs.
"""

import os

# What a knob does is drawn with the next frame: at Textual's own 60 a second that waits 17 ms.
os.environ.setdefault("TEXTUAL_FPS", "120")  # which it reads when it is imported
