"""The searchers, one module each, named as `scout.searcher` names them."""
