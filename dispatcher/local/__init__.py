"""The embedded mode: a server, a dispatcher and a worker that live as long as a command."""
