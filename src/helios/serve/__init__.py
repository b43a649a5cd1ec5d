"""HTTP: routes, chat, events, permits, metrics, the page."""
