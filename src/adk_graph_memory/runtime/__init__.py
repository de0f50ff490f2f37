"""What a process is configured with and reports: settings, telemetry, concurrency."""
