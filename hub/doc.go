// Package hub downloads models from the Hugging Face hub, or from a server that
// speaks its protocol, into the cache that its own tools use.
//
//	c, err := hub.FromEnv()
//	if err != nil {
//		return err
//	}
//	name, err := hub.ParseName("hf.co/org/model-GGUF:Q4_K_M")
//	if err != nil {
//		return err
//	}
//	s, err := c.Pull(ctx, name)
//	if err != nil {
//		return err
//	}
//	m, err := engine.Open(s.Model, engine.Options{})
//
// The cache is laid out as huggingface_hub lays it out: a file another tool
// downloaded is used, and what is downloaded here the other tools find.
//
//	models--org--name/
//	  refs/main              the commit that the branch had
//	  blobs/HASH             contents; HASH.incomplete while it is downloaded
//	  snapshots/COMMIT/FILE  link to ../../blobs/HASH
//	.locks/models--org--name/HASH.lock
//
// A name in blobs or snapshots is given only to a file that is whole and has
// the hash that the server announced: SHA-256 for large files, Git's SHA-1 for
// small ones. A download that was cut, by the network or by a signal, goes on
// where it ended.
package hub
