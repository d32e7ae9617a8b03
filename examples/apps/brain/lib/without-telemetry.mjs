// A server sets it for its jobs; this is for who runs the app by hand.
process.env.ORT_DISABLE_TELEMETRY ??= '1';
