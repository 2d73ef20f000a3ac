// Package real runs the runtime with the real Claude CLI, which `make test-claude` installs from npm.
// Its tests have the build tag claude, so that all others run without it.
package real
