package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// usage is the memory of a process, in bytes.
type usage struct {
	resident  float64 // everything in memory, including the program's text
	anonymous float64 // its own memory: heaps, stacks
}

// memoryOf reads a process's memory. It works only on Linux.
func memoryOf(pid int) (u usage, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return u, err
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		f := bytes.Fields(lines.Bytes())
		if len(f) != 3 {
			continue
		}
		n, err := strconv.ParseFloat(string(f[1]), 64)
		if err != nil {
			continue
		}
		switch string(f[0]) {
		case "Rss:":
			u.resident = n * 1024
		case "Anonymous:":
			u.anonymous = n * 1024
		}
	}
	return u, lines.Err()
}

// inUse is the child's own memory after a collection.
func (c *child) inUse() (float64, error) {
	if err := c.settle(); err != nil {
		return 0, err
	}
	u, err := memoryOf(c.cmd.Process.Pid)
	return u.anonymous, err
}

// until polls a condition for at most a minute.
func until(ctx context.Context, what string, so func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := so(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// unloaded waits until the child has no session in memory.
func (c *child) unloaded(ctx context.Context) error {
	return until(ctx, "sessions leave memory", func() (bool, error) {
		a, err := c.ask("status")
		return a.Loaded == 0, err
	})
}
