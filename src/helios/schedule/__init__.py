"""Who runs next: roster, queue, gates, caps, plan, settle.  Pure: no clock, chance or device."""
