package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"graphrun/engine"
)

// writeOutput writes data to path, or to standard output when path is "", as
// createOutput does.
func writeOutput(cmd *cobra.Command, path string, data []byte, keep ...string) error {
	if path == "" {
		path = "-"
	}
	out, err := createOutput(cmd.OutOrStdout(), path, keep...)
	if err != nil {
		return err
	}
	defer out.discard()
	if _, err := out.Write(data); err != nil {
		return err
	}
	return out.commit()
}

// outputFile is what a command writes: a file under a temporary name until
// commit, a device or pipe, or standard output.
type outputFile struct {
	w    io.Writer
	f    *os.File // nil: standard output
	path string   // as given
	to   string   // the name that commit gives; "" for a device or pipe
	mode fs.FileMode
	err  error // of the first write that failed
	done bool
}

// createOutput opens path for writing; - is standard output. A file appears
// under its name only when it is whole. Folders are refused, and so is any of
// the files keep: the model that is being read.
func createOutput(stdout io.Writer, path string, keep ...string) (*outputFile, error) {
	if path == "-" || path == "/dev/stdout" {
		return &outputFile{w: stdout, path: path}, nil
	}
	refuse := func(err error) (*outputFile, error) {
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			err = pe.Err // not a temporary name
		}
		return nil, &fs.PathError{Op: "create", Path: path, Err: err}
	}
	to, mode := path, fs.FileMode(0o644)
	if st, err := os.Stat(path); err == nil {
		for _, k := range keep {
			if s, err := os.Stat(k); err == nil && os.SameFile(s, st) {
				return refuse(errors.New("is a file of the model; give another name"))
			}
		}
		switch {
		case st.IsDir():
			return refuse(errors.New("is a folder; give the name of a file"))
		case !st.Mode().IsRegular():
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return refuse(err)
			}
			return &outputFile{w: f, f: f, path: path}, nil
		}
		mode = st.Mode().Perm()
		if to, err = filepath.EvalSymlinks(path); err != nil {
			return refuse(err)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*.tmp")
	if err != nil {
		return refuse(err)
	}
	return &outputFile{w: f, f: f, path: path, to: to, mode: mode}, nil
}

// Write implements io.Writer. Its errors name the path as given.
func (o *outputFile) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if pe := (*fs.PathError)(nil); o.f != nil && errors.As(err, &pe) {
		err = &fs.PathError{Op: "write", Path: o.path, Err: pe.Err}
	}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// commit gives the file its name, if every write succeeded.
func (o *outputFile) commit() error {
	if o.f == nil || o.err != nil {
		o.discard()
		return o.err
	}
	if o.to != "" {
		if err := o.f.Chmod(o.mode); err != nil {
			return err
		}
	}
	if err := o.f.Close(); err != nil {
		return fmt.Errorf("write %s: %w", o.path, err)
	}
	if o.to != "" {
		if err := os.Rename(o.f.Name(), o.to); err != nil {
			return err
		}
	}
	o.done = true
	return nil
}

// discard removes a file that was not committed.
func (o *outputFile) discard() {
	if o.done || o.f == nil {
		return
	}
	o.f.Close()
	if o.to != "" {
		os.Remove(o.f.Name())
	}
}

// modelFiles returns the files of a model, for createOutput to keep.
func modelFiles(m *engine.Model) []string {
	var list []string
	for _, t := range m.File.Tensors {
		if !isOneOf(t.File, list) {
			list = append(list, t.File)
		}
	}
	return list
}
