"""What happens in a job, told to a collector: spans, metrics. The only package that knows OpenTelemetry."""
