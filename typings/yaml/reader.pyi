from yaml import YAMLError

class ReaderError(YAMLError):
    character: int | bytes
    position: int
