package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// writeOutput writes data to path, or to standard output when path is "". A
// file appears under its name only when it is whole.
func writeOutput(cmd *cobra.Command, path string, data []byte) error {
	if path == "" {
		_, err := cmd.OutOrStdout().Write(data)
		return err
	}
	out, err := createOutput(path)
	if err != nil {
		return err
	}
	defer out.discard()
	if _, err := out.Write(data); err != nil {
		return err
	}
	return out.commit()
}

// outputFile is a file under a temporary name until commit.
type outputFile struct {
	*os.File
	path string
	done bool
}

func createOutput(path string) (*outputFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return nil, &fs.PathError{Op: "create", Path: path, Err: pe.Err} // not the temporary name
	} else if err != nil {
		return nil, err
	}
	return &outputFile{File: f, path: path}, nil
}

// commit gives the file its name.
func (o *outputFile) commit() error {
	if err := o.Chmod(0o644); err != nil {
		return err
	}
	if err := o.Close(); err != nil {
		return err
	}
	if err := os.Rename(o.Name(), o.path); err != nil {
		return err
	}
	o.done = true
	return nil
}

// discard removes a file that was not committed.
func (o *outputFile) discard() {
	if !o.done {
		o.Close()
		os.Remove(o.Name())
	}
}
