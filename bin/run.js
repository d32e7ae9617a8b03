#!/usr/bin/env node
require('../dist/bundle/start/run.js');
