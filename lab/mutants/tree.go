package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A tree is a copy of the working tree, in a folder.
type tree struct{ dir string }

// listFiles returns the files below a root: those that git knows, and those that are new
// and not ignored.
func listFiles(ctx context.Context, root string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	var wrong strings.Builder
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w: %s", err, strings.TrimSpace(wrong.String()))
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// copyTree copies the files of a root into a folder.
func copyTree(root string, files []string, dir string) (tree, error) {
	for _, name := range files {
		err := copyFile(filepath.Join(root, name), filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // git also knows what was deleted by hand
			return tree{}, err
		}
	}
	return tree{dir}, nil
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

func (t tree) path(m mutant) string { return filepath.Join(t.dir, filepath.FromSlash(m.file)) }

// texts returns what is in the mutant's file without it and with it.
func (t tree) texts(m mutant) (clean, planted string, err error) {
	text, err := os.ReadFile(t.path(m))
	if err != nil {
		return "", "", fmt.Errorf("the mutant %s does not fit the code any more: %w", m.name, err)
	}
	planted, err = m.plantIn(string(text))
	return string(text), planted, err
}

// plant puts a mutant into the tree, and restore takes it out again.
func (t tree) plant(m mutant) (restore func() error, err error) {
	clean, planted, err := t.texts(m)
	if err != nil {
		return nil, err
	}
	write := func(text string) error { return os.WriteFile(t.path(m), []byte(text), 0o644) }
	return func() error { return write(clean) }, write(planted)
}
