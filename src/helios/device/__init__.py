"""The narrow seam to hardware: memory, programs, submissions, fences."""
