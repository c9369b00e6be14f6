// Loads a client by the entry that its package gives to require(). The oldest one
// calls itself an ES module, whose imports node has not resolved for years; what
// it gives to require() is what was used with it.
import { readFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

export function load(name) {
  const folder = join(import.meta.dirname ?? dirname(new URL(import.meta.url).pathname), 'node_modules', name);
  const { exports } = require(join(folder, 'package.json'));
  const path = join(folder, exports['.'].require.default ?? exports['.'].require);
  const module = new Module(path);
  module.filename = path;
  module.paths = Module._nodeModulePaths(dirname(path));
  module._compile(readFileSync(path, 'utf8'), path);
  return module.exports;
}
