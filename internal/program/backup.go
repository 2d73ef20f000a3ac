package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/backup"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/livefiles"
	"github.com/parley-server/parley/internal/store/sqlite"
)

func newBackup(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "backup FILE|FOLDER", Short: "Back up the data folder, also of a server that runs",
		Long: `Write everything in the data folder to one file, which must not exist: .tar, .tar.gz
or .tgz. In a FOLDER its name has the time. A server goes on meanwhile. All that it
has acknowledged before is in the backup. The file appears when it is complete.

It has the sessions with their files, what was condensed, old contents of files, the
hashes of keys and sign-ins, and workspaces and platform if they are in the folder. It
does not have parley.yaml, your apps and the file of vault.keys, without which the
secrets of users in the backup cannot be read: keep that file elsewhere.

With PostgreSQL run pg_dump first: the backup has only what is in the folder.`,
		Args: listed(cobra.ExactArgs(1), "name the file, such as /backup/parley.tar.gz, or a folder for it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			return makeBackup(cmd.Context(), s, args[0], cmd.OutOrStdout())
		},
	}
}

func newRestore(f *flags) *cobra.Command {
	return &cobra.Command{
		Use: "restore FILE", Short: "Make the data folder of a backup",
		Long: `Make the data folder (--data) of a backup. It must not exist, or be empty. It
appears when everything in the backup was compared with the backup's list.`,
		Args: listed(cobra.ExactArgs(1), "name the file that parley backup has made"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.settings(cmd)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(s.Data), 0o700); err != nil {
				return err
			}
			c, err := backup.Restore(cmd.Context(), args[0], s.Data)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is as of %s, with %d files, made by parley %s\n", s.Data, c.Moment.Local().Format(time.RFC3339), len(c.Files), c.Version)
			return nil
		},
	}
}

func makeBackup(ctx context.Context, s config.Settings, target string, out io.Writer) error {
	at, err := storeOf(s)
	if err != nil {
		return err
	}
	if at.kind == "mem" {
		return usage(parley.Errorf(parley.CodeInvalid, "the store mem has nothing to back up").WithField("store"))
	}
	if _, err := os.Stat(s.Data); err != nil {
		return parley.Errorf(parley.CodeNotFound, "there is no data folder %s", s.Data).WithHint("name it with --data")
	}
	if target, err = filepath.Abs(target); err != nil {
		return usage(err)
	}
	now := time.Now()
	if info, err := os.Stat(target); err == nil && info.IsDir() {
		target = filepath.Join(target, "parley-"+now.UTC().Format("20060102T150405Z")+".tar.gz")
	}
	if !strings.HasSuffix(target, ".tar") && !strings.HasSuffix(target, ".tar.gz") && !strings.HasSuffix(target, ".tgz") {
		return usage(parley.Errorf(parley.CodeInvalid, "%s is no folder, and no name of a backup", target).WithHint("end it in .tar, .tar.gz or .tgz"))
	}
	if inside(s.Data, target) {
		return usage(parley.Errorf(parley.CodeInvalid, "%s is in the data folder", target).WithHint("write it to another disk, or at least to another folder"))
	}
	// The folder is not locked: a server that starts meanwhile is like one that runs.
	o := backup.Options{
		Data: s.Data, Target: target, Version: version, Now: now,
		Databases: []string{sqlite.FileName, checkpoint.FileName}, Snapshot: sqlite.Snapshot,
		Archive: archive.FolderName, Forget: forgetIn,
		// The files of sessions are made again from the logs.
		Skip: append([]string{lockFile, socketFile}, livefiles.Folders()...),
	}
	c, err := backup.Make(ctx, o)
	if err != nil {
		return backupError(err)
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d files, %d KiB, as of %s\n", target, len(c.Files), info.Size()>>10, c.Moment.Local().Format(time.RFC3339))
	if at.kind == "postgres" {
		fmt.Fprintln(out, "The sessions are in PostgreSQL: run pg_dump as well, before this.")
	}
	return nil
}

// backupError gives an error of a file system its hint.
func backupError(err error) error {
	if _, ok := errors.AsType[*parley.Error](err); ok {
		return err
	}
	return parley.Errorf(parley.CodeUnavailable, "the backup was not made: %w", err).WithHint("check that there is room beside the backup for the databases and once more for everything")
}

// inside reports whether path is below dir, whatever links lead there.
func inside(dir, path string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(real, filepath.Base(path))
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// forgetIn deletes sessions in the copy of a database.
func forgetIn(ctx context.Context, database string, sessions []string) error {
	s, err := sqlite.Open(ctx, filepath.Dir(database), sqlite.Options{Still: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	for _, id := range sessions {
		if err := s.Delete(ctx, parley.System(), parley.SessionID(id)); err != nil && !errors.Is(err, parley.ErrNotFound) {
			return errors.Join(err, s.Close())
		}
	}
	return s.Close()
}
