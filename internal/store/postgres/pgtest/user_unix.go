//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// apart takes a command out of our process group, so that an interrupt at the
// terminal leaves it to do its work.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// postgres returns the user to run as; nil means the current one.
func postgres() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("as root, PostgreSQL has to run as user postgres: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func asPostgres(c *exec.Cmd) {
	apart(c)
	c.SysProcAttr.Credential, _ = postgres() // chown has seen the error
}

func chown(dir string) error {
	cred, err := postgres()
	if err != nil || cred == nil {
		return err
	}
	return os.Chown(dir, int(cred.Uid), int(cred.Gid))
}
