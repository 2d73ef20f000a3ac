//go:build unix && !(linux && (amd64 || arm64))

package confine

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"
)

// Probe says why commands cannot be confined here.
func Probe(context.Context, string) (string, error) {
	return "", errors.New("commands can be confined only on Linux for amd64 and arm64, and this is " + runtime.GOOS + " for " + runtime.GOARCH)
}

func namespaces(bool) *syscall.SysProcAttr { return nil }

func helper() { os.Exit(1) }

// CanFence reports whether the kernel can fence a program in. Only Linux can.
func CanFence() bool { return false }

var errNoFence = errors.New("only Linux for amd64 and arm64 has fences")

func (Fence) become([]string) error { return errNoFence }

func enter(*os.File) error { return errNoFence }

func (Fence) rules([]string) (*os.File, error) { return nil, errNoFence }

func (Job) settle(Start) (name, moved string, err error) { return "", "", errors.ErrUnsupported }
