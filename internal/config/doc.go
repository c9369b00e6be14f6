// Package config is what an operator can set: the file and the environment, the
// defaults, what is wrong with them, and what follows from them for the packages that
// do the work. Those know options of their own and nothing of this package.
package config
