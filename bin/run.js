#!/usr/bin/env node
import '../dist/start/run.js';
