package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Snapshot is what a name means in the cache.
type Snapshot struct {
	Repo   string
	Commit string
	Dir    string // folder of the snapshot
	Files  []File
	// Model is the path to open: a file, or Dir. It is "" where files were
	// named that are no model.
	Model string
	// Note says which model was taken where the name did not say.
	Note string
	// Fetched is the number of bytes that came over the network.
	Fetched int64
}

// MissingError says that the cache does not have what a name means.
type MissingError struct {
	Name  Name
	Cache string
	Err   error // why, nil if nothing of the repository is there
}

// Error names the cache and how to fill it.
func (e *MissingError) Error() string {
	s := fmt.Sprintf("hub: %s is not in the cache %s", e.Name, e.Cache)
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	return s + "; graphrun pull fetches it"
}

// Unwrap returns the reason.
func (e *MissingError) Unwrap() error { return e.Err }

// Find looks a name up in the cache, without the network. What is not there, or
// not whole, is a *MissingError.
func (c *Client) Find(n Name) (*Snapshot, error) {
	missing := func(err error) (*Snapshot, error) {
		return nil, &MissingError{Name: n, Cache: c.Cache, Err: err}
	}
	dir := filepath.Join(c.Cache, n.folder())
	commit := n.revision()
	if !isCommit(commit) {
		b, err := os.ReadFile(filepath.Join(dir, "refs", filepath.FromSlash(commit)))
		if errors.Is(err, fs.ErrNotExist) {
			return missing(nil)
		}
		if err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
		if commit = strings.TrimSpace(string(b)); !isCommit(commit) {
			return nil, fmt.Errorf("hub: %s holds %q, want a commit; remove it and pull again", filepath.Join(dir, "refs", n.revision()), oneLine(commit))
		}
	}
	s := &Snapshot{Repo: n.Repo, Commit: commit, Dir: filepath.Join(dir, "snapshots", commit)}
	files, err := s.scan()
	if errors.Is(err, fs.ErrNotExist) {
		return missing(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	ch, err := choose(n, files)
	if err != nil {
		return missing(err)
	}
	if n.Tokenizer && ch.model == "" && !hasFile(ch.files, "tokenizer.json") && !hasFile(ch.files, "tokenizer.model") {
		return missing(errors.New("it has no tokenizer.json"))
	}
	s.take(ch)
	return s, nil
}

func hasFile(files []File, name string) bool {
	for _, f := range files {
		if f.Name == name {
			return true
		}
	}
	return false
}

// take fills in a choice.
func (s *Snapshot) take(ch choice) {
	s.Note = ch.note
	s.Files = nil
	for _, f := range ch.files {
		f.Path = s.path(f.Name)
		s.Files = append(s.Files, f)
	}
	weights := false
	for _, f := range ch.files {
		weights = weights || strings.HasSuffix(f.Name, ".safetensors") || f.Name == "tokenizer.json" || f.Name == "config.json"
	}
	switch {
	case ch.model != "":
		s.Model = s.path(ch.model)
	case weights:
		s.Model = s.Dir
	}
}

func (s *Snapshot) path(name string) string { return filepath.Join(s.Dir, filepath.FromSlash(name)) }

// scan lists the files of a snapshot. Links that lead nowhere are left out:
// another tool removed what they meant.
func (s *Snapshot) scan() ([]File, error) {
	var files []File
	err := filepath.WalkDir(s.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := os.Stat(p)
		if err != nil || !st.Mode().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(s.Dir, p)
		if err != nil {
			return err
		}
		if name := filepath.ToSlash(rel); checkFile(name) == nil {
			files = append(files, File{Name: name, Size: st.Size(), Path: p})
		}
		return nil
	})
	return files, err
}

// publish gives the file of a snapshot its name: a link to the blob.
func publish(blob, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	rel, err := filepath.Rel(filepath.Dir(to), blob)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if have, err := os.Readlink(to); err == nil && have == rel {
		return nil
	}
	// Under a name of its own first: what has the final name is always whole.
	temp, err := os.MkdirTemp(filepath.Dir(to), ".link.")
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	defer os.RemoveAll(temp)
	link := filepath.Join(temp, "link")
	if err := os.Symlink(rel, link); err != nil {
		// Windows lets only some users make symbolic links.
		if err2 := os.Link(blob, link); err2 != nil {
			return fmt.Errorf("hub: %w", errors.Join(err, err2))
		}
	}
	if err := os.Rename(link, to); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// writeRef notes the commit of a branch or tag.
func writeRef(dir, revision, commit string) error {
	to := filepath.Join(dir, "refs", filepath.FromSlash(revision))
	if b, err := os.ReadFile(to); err == nil && string(b) == commit {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(to), ".ref.*.tmp")
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(commit)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}
