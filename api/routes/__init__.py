"""One resource a file: authorised by the gate, each route makes one call and answers with a view."""
