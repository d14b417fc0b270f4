from . import openai as openai
