"""A real launch: started, watched, asked, compared with its plan; and the logs of launches."""
