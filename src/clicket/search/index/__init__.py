"""The local index: documents in one SQLite file, found by their terms, by their names and, with an embedder, by meaning.

`index.Index` is the entry point. Documents go in from top to bottom, and answers come out of the reader.

    index         the public class: transactions, locks, threads
    folder_sync   brings the index up to date with a folder, in batches
    folder_walk   lists the files of a folder, with patterns as in .gitignore
    source_file   opens one file and turns it into documents, by `search.extract`
    file_tables   what the index stores about folders and files
    rows          checks the documents that a caller adds
    splitter      cuts a file into documents, and a document into passages
    writer        writes documents, passages and terms inside a transaction
    vectors       stores the vectors of passages, and scans them
    reader        answers searches and lookups from one snapshot of the file
    list_writer   writes posting lists: which passages hold a term, and how often
    postings      reads them, and scores passages by BM25
    bit_planes    sums for all passages at once
    schema        the SQL tables, and the errors of the file
"""
